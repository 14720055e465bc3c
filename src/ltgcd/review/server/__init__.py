"""The server of ``ltgcd review``: a review in memory, and the routes through which a page looks at it and edits it."""
