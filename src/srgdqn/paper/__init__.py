"""The reproduction as a whole: experiments run at a scale, claims judged, and the report of both."""
