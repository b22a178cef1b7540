"""Where the parts are put together: every entry point, readiness, and the order in which things end."""
