// Components in shadow roots: stars, each a component in the root of another.
"use strict";

class OneStar extends HTMLElement {
  connectedCallback() {
    const root = this.attachShadow({mode: "open"});
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "\u2605";
    button.ariaLabel = `${this.dataset.stars} of 5 stars`;
    root.append(button);
  }
}

class StarRating extends HTMLElement {
  connectedCallback() {
    const root = this.attachShadow({mode: "open"});
    const heading = document.createElement("h2");
    heading.textContent = "Rate our shop";
    const result = document.createElement("p");
    root.append(heading);
    for (let stars = 1; stars <= 5; stars++) {
      const star = document.createElement("one-star");
      star.dataset.stars = stars;
      star.onclick = () => {
        result.textContent = `You gave ${stars}.`;
        send("/api/stars", {stars});
      };
      root.append(star);
    }
    root.append(result);
  }
}

customElements.define("one-star", OneStar);
customElements.define("star-rating", StarRating);
