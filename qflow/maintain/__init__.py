"""What maintainers run: builds of the chapters and the reference, the sentence map, benchmarks. Not in the wheel."""
