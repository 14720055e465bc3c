"""What people take away: the HTML page, and the formats of other tools."""
