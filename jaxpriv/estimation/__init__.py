"""From samples: tables, estimates and what they are worth."""
