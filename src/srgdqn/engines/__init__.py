"""Where cells run. An engine receives a function and things to call it with, and knows no study."""
