"""One module for each part of a run: `measure(place)` gives tables for people, figures for goals and
plots, and notes."""
