"""From samples: tables, log-lift estimators, confidence statistics."""
