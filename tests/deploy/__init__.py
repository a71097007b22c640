"""The deployment: images, compose files, dashboards and alerts."""
