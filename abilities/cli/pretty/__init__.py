"""Answers of abilities as people read them: tables, trees and sentences on a terminal."""
