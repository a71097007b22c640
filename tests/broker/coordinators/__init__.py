"""The coordinators."""
