"""What the experiments are called, in the order of the report: told without importing what they run."""

NAMES = (
    "figure-1",
    "figure-2",
    "controls",
    "figure-3-left",
    "figure-3-right",
    "table-2",
    "theorem-1",
    "training-time",
    "anatomy",
    "dose-response",
)
