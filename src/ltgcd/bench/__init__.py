"""The paper's tables from one command: `tables` says which cells there are, `cells` runs one, `render` shows them."""
