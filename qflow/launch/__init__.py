"""Launch: the chapters in JupyterLab, as a site, in a workshop room; the check of a machine."""
