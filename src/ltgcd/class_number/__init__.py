"""How many classes there are: the estimate, its interval and its rivals."""
