"""From samples: what a finite number of records says about a population."""
