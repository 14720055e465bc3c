"""Backbones: a frozen trunk whose activations are cached, and a tail that is trained."""
