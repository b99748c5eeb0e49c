"""Columnar tables that hold every host and every resource provider in memory."""
