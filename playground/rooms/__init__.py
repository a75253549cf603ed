"""Workshops: a teacher's room, its seats and its log; rules, API, socket, wall and results."""
