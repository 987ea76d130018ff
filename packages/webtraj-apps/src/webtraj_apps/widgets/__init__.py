"""Widgets of real UI libraries as environments: one page, one goal, judged by the library's state.

* `libraries`: the table of libraries and how they are installed; the names of the widgets.
* `environment`: what a widget is, its task, its server and the environment.
* `pages`: a page for each widget, as users of the library write it.
* `dates`, `choices`, `values`, `texts`, `tables`, `drag_and_drop`, `overlays`, `frameworks`: for
  each widget its goal, the state that solves it, and an oracle.
"""
