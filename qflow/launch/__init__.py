"""Launch: how the kit reaches people: as a site, in a workshop room, on a checked machine."""
