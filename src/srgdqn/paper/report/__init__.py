"""The report: one self-contained page, images and tables, made of plain data."""
