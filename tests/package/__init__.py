"""The package: architecture, documents, requirements, settings."""
