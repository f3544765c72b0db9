"""The paper's experiments: each names its cells, its statistic and its figure, and knows no gradient."""
