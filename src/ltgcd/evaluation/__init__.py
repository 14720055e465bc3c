"""The metric: labels against the truth. Who may name the truth at all is listed in tests/data/test_sources.py."""
