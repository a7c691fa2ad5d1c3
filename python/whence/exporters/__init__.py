"""Exporters and workflows of other libraries, with origins."""
