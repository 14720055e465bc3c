"""What a collection is and where it comes from."""
