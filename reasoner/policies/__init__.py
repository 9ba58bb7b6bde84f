"""Which paths to run, judge and stop, and which answer to return. docs/policies.md shows how to add one."""
