"""The reproduction of the paper: studies, measurements, claims, evidence and the report."""
