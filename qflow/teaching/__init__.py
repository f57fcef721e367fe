"""Teaching: finding, laying out, building and opening the chapters."""
