// The key with which the page asks: kept for this tab, or on this device if the user wants that.
// Never in an address, never in a cookie.

const NAME = "radixchat.key";

export function storedKey() {
  return sessionStorage.getItem(NAME) ?? localStorage.getItem(NAME);
}

export function storeKey(key, onDevice) {
  forgetKey();
  (onDevice ? localStorage : sessionStorage).setItem(NAME, key);
}

export function forgetKey() {
  sessionStorage.removeItem(NAME);
  localStorage.removeItem(NAME);
}

/**
 * Why the server does not open a socket, which a browser does not tell: "key" (none, or a wrong
 * one), "busy" (starting, stopping, or full), "unreachable" or "unknown".
 */
export async function whyRefused() {
  const key = storedKey();
  const headers = key === null ? {} : { authorization: `Bearer ${key}` };
  try {
    const { status } = await fetch("/v1/models", { headers, cache: "no-store" });
    if (status === 401 || status === 403) return "key";
    if (status === 429 || status === 503) return "busy";
    return "unknown";
  } catch {
    return "unreachable";
  }
}
