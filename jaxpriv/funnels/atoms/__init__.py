"""The linear program over posteriors: column generation with proved bounds."""
