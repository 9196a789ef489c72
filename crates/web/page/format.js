// Numbers as people read them. What is not known is a dash.

const UNKNOWN = "–";

function scaled(value, base, units) {
  let unit = 0;
  while (Math.abs(value) >= base && unit < units.length - 1) {
    value /= base;
    unit += 1;
  }
  const digits = unit === 0 || Math.abs(value) >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${units[unit]}`.trim();
}

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

/// Bytes, in powers of 1024.
export const bytes = (value) =>
  known(value) ? scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]) : UNKNOWN;

/// Blocks of 4096 bytes, as bytes.
export const blocks = (value) => (known(value) ? bytes(value * 4096) : UNKNOWN);

/// A number of things.
export const count = (value) =>
  known(value) ? (Math.abs(value) < 10000 ? String(Math.round(value)) : scaled(value, 1000, ["", "k", "M", "G", "T"])) : UNKNOWN;

/// Bytes in a second.
export const rate = (value) => (known(value) ? `${bytes(value)}/s` : UNKNOWN);

/// A part of the whole.
export const percent = (value) => {
  if (!known(value)) return UNKNOWN;
  const hundredths = 100 * value;
  const digits = hundredths > 0 && hundredths < 10 ? 1 : 0;
  return `${hundredths.toFixed(digits)} %`;
};

/// A time.
export const seconds = (value) => {
  if (!known(value)) return UNKNOWN;
  if (value < 1e-6) return "< 1 µs";
  if (value < 1e-3) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1e3).toFixed(value < 0.1 ? 1 : 0)} ms`;
  if (value < 120) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 7200) return `${(value / 60).toFixed(0)} min`;
  if (value < 172800) return `${(value / 3600).toFixed(0)} h`;
  return `${(value / 86400).toFixed(0)} d`;
};

/// Quantiles of a time; a dash if nothing was timed.
export const p50 = (of) => (of && of.count > 0 ? seconds(of.p50_seconds) : UNKNOWN);
export const p99 = (of) => (of && of.count > 0 ? seconds(of.p99_seconds) : UNKNOWN);

/// A moment, in the browser's time zone.
export const moment = (at) => new Date(at * 1000).toLocaleString();

/// A word of a command line.
export const word = (text) => (/^[A-Za-z0-9_.:\/@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/// One thing or many.
export const counted = (value, thing) => `${count(value)} ${thing}${value === 1 ? "" : "s"}`;
