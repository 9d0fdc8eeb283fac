"""Pages of file versions 2.1 and 2.2 (docs/format.md, "Pages of 2.1 and 2.2")."""
