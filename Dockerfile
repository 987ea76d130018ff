# Plays the demo and shows it at port 8000:
#
#   docker build --tag webtraj .
#   docker run --rm --init --publish 127.0.0.1:8000:8000 webtraj
#
# It prints the address to open. Other commands: docker run --rm --init webtraj webtraj presets
FROM python:3.13-slim-bookworm

# MiniWoB++'s pages are laid out for Arial, and Playwright's Node.js needs libatomic.
# Debian keeps only the latest browser, so no version can be pinned.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        chromium-headless-shell fonts-liberation libatomic1 \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/webtraj
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt '.[web,config]' \
    && useradd --create-home --uid 1000 webtraj

USER 1000
WORKDIR /home/webtraj
EXPOSE 8000
CMD ["sh", "-c", "webtraj demo --no-view && exec webtraj view runs/demo --host 0.0.0.0 --port 8000"]
