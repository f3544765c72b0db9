"""Whether a saved run is what its configuration gives: rounds trained again, and held against what was stored."""
