"""Helpers that every room uses: optional packages, keyword spellings, library warnings, and the layout of reports."""
