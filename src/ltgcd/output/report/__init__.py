"""Tables, plots and the HTML page of a run."""
