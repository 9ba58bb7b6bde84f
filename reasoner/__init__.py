"""Problem level: one problem, N long paths, one verified answer."""
