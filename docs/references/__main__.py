"""Write every generated page: `python -m docs.references`, or `make references`."""

from docs.references.generated import files

if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
