"""What a person says about a discovery: events that are kept for good, and the labels that follow from them."""
