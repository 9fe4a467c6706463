"""Texts for people: what a plan says. Imports no torch."""

from shardwright.report.summary import plan_summary

__all__ = ["plan_summary"]
