"""The metric: labels against the truth. Which modules may name the truth at all is listed in tests/data/test_sources.py."""
