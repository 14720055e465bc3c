"""From items to vectors: backbones, the cache of their activations, views."""
