"""From a partly labelled table of vectors to classes: the pure pipeline, rehearsals, new categories."""
