"""Statistics of the values of pages, in one form for all file versions."""
