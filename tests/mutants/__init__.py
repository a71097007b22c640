"""One-line removals of rules, and a runner that says which test notices each: `make mutants`."""
