//! The rules of a number, and how a number that is cut anywhere can be ended.

/// Maximum number of digits that are appended.
const MAX_DIGITS: usize = 20;
/// Number of digits that a double keeps.
const EXACT_DIGITS: usize = 15;
/// Maximum number of endings for one number.
const MAX_ENDINGS: usize = 4;

/// Beyond it, bounds are not exact.
const LARGE: f64 = 1e15;

/// `digits` x 10^-`exponent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: i128,
    exponent: u32,
}

impl Decimal {
    /// The whole number that `value` is, or the decimal number that it prints as; `None` if it has
    /// too many digits.
    pub(super) fn new(value: f64) -> Option<Self> {
        if value.fract() == 0.0 && value.abs() < 1e30 {
            return Some(Self::whole(value as i128));
        }
        let text = format!("{value}");
        let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
        let exponent = fraction.len() as u32;
        let digits = text.replace('.', "").parse().ok()?;
        (exponent <= 30).then_some(Self { digits, exponent })
    }

    pub(super) fn whole(digits: i128) -> Self {
        Self { digits, exponent: 0 }
    }

    pub(super) fn to_f64(self) -> f64 {
        format!("{}e-{}", self.digits, self.exponent).parse().unwrap_or_default()
    }

    /// Units of 10^-`scale`, rounded down; and whether that is exact. `None` beyond the range.
    fn floor_at(self, scale: u32) -> Option<(i128, bool)> {
        if scale >= self.exponent {
            let factor = power(scale - self.exponent)?;
            return Some((self.digits.checked_mul(factor)?, true));
        }
        let factor = power(self.exponent - scale)?;
        Some((self.digits.div_euclid(factor), self.digits.rem_euclid(factor) == 0))
    }
}

/// A limit of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bound {
    pub(super) value: f64,
    /// The exact value; `None` beyond the numbers that are computed with.
    pub(super) decimal: Option<Decimal>,
    pub(super) exclusive: bool,
}

/// The numeric keywords of a schema.
#[derive(Debug, Default, Clone)]
pub(super) struct NumberRule {
    pub(super) whole: bool,
    pub(super) min: Option<Bound>,
    pub(super) max: Option<Bound>,
    pub(super) multiples: Vec<Decimal>,
    /// `enum` and `const`, as they are written.
    pub(super) literals: Option<Vec<String>>,
}

/// Numbers without sign, in units of one scale.
struct Range {
    low: i128,
    high: i128,
    step: i128,
}

impl Range {
    /// The smallest number between `from` and `to`.
    fn first(&self, from: i128, to: i128) -> Option<i128> {
        let from = from.max(self.low);
        let rest = from.rem_euclid(self.step);
        let value = if rest == 0 { from } else { from.checked_add(self.step - rest)? };
        (value <= to.min(self.high)).then_some(value)
    }
}

impl NumberRule {
    /// Both rules at once.
    pub(super) fn merge(&mut self, other: &Self) {
        self.whole |= other.whole;
        self.min = tighter(self.min, other.min, |new, old| new > old);
        self.max = tighter(self.max, other.max, |new, old| new < old);
        self.multiples.extend_from_slice(&other.multiples);
        self.literals = match (self.literals.take(), &other.literals) {
            (Some(mut own), Some(others)) => {
                own.retain(|literal| others.contains(literal));
                Some(own)
            }
            (own, others) => own.or_else(|| others.clone()),
        };
    }

    /// Removes the literals that break the other rules.
    pub(super) fn settle(&mut self) {
        let literals = self.literals.take();
        self.literals = literals.map(|mut literals| {
            literals.retain(|literal| self.admits(literal));
            literals
        });
    }

    /// Whether a bound is too large to compute with.
    pub(super) fn is_large(&self) -> bool {
        let is_large = |bound: Bound| bound.value.abs() >= LARGE;
        self.literals.is_none() && (self.min.is_some_and(is_large) || self.max.is_some_and(is_large))
    }

    /// Whether the text of a complete number is within the range and of the kind.
    pub(super) fn admits(&self, text: &str) -> bool {
        if let Some(literals) = &self.literals {
            return literals.iter().any(|literal| literal == text);
        }
        if self.whole && text.contains(['.', 'e', 'E']) {
            return false;
        }
        let Ok(value) = text.parse::<f64>() else { return false };
        let above = |min: Bound| value > min.value || (!min.exclusive && value >= min.value);
        let below = |max: Bound| value < max.value || (!max.exclusive && value <= max.value);
        self.min.is_none_or(above) && self.max.is_none_or(below)
    }

    /// What can follow `begun`, shortest first; the empty text if it is complete.
    pub(super) fn endings(&self, begun: &str) -> Vec<String> {
        if let Some(literals) = &self.literals {
            let rests = literals.iter().filter_map(|text| text.strip_prefix(begun));
            let mut rests: Vec<String> = rests.map(str::to_owned).collect();
            rests.sort_by_key(String::len);
            rests.truncate(MAX_ENDINGS);
            return rests;
        }
        if begun.contains(['e', 'E']) {
            let whole = begun.ends_with(|c: char| c.is_ascii_digit());
            let digits = if whole { ["", "0", "1"] } else { ["0", "1", "2"] };
            return digits.map(str::to_owned).to_vec();
        }
        let mut endings = self.signed(begun);
        // An open bound is matched with a last digit other than 0.
        if begun.contains('.') && self.multiples.is_empty() {
            let further = ["1", "5", "9"].into_iter().map(str::to_owned);
            endings.extend(further.filter(|digit| self.admits(&format!("{begun}{digit}"))));
        }
        if begun.is_empty() {
            endings.extend(self.signed("-").into_iter().map(|rest| format!("-{rest}")));
        }
        endings.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
        endings.dedup();
        endings.truncate(MAX_ENDINGS);
        endings
    }

    /// [`Self::endings`] with the sign settled.
    fn signed(&self, begun: &str) -> Vec<String> {
        let (negative, digits) = match begun.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, begun),
        };
        let Some(number) = Begun::new(digits) else { return overlong(begun) };
        let mut endings = Vec::new();
        // Numbers other than 0 first: minus zero is not always allowed.
        for smallest in if negative { &[1, 0][..] } else { &[0][..] } {
            let found = extensions(number.point.is_some(), self.whole).filter_map(|(more, behind)| {
                let range = self.range(negative, number.scale() + behind as u32, *smallest)?;
                number.extend(&range, more, behind)
            });
            endings.extend(found.take(MAX_ENDINGS / 2));
        }
        endings
    }

    fn range(&self, negative: bool, scale: u32, smallest: i128) -> Option<Range> {
        let mut step: i128 = 1;
        for multiple in &self.multiples {
            step = lcm(step, step_at(*multiple, scale)?)?;
        }
        let min = self.min.and_then(|bound| low(bound, scale));
        let max = self.max.and_then(|bound| high(bound, scale));
        let (min, max) = if negative { (max.map(|v| -v), min.map(|v| -v)) } else { (min, max) };
        let high = max.unwrap_or(i128::MAX / 4);
        Some(Range { low: min.unwrap_or(0).max(smallest), high, step })
    }
}

/// The smallest bound in units of `scale`.
fn low(bound: Bound, scale: u32) -> Option<i128> {
    let (floor, exact) = bound.decimal?.floor_at(scale)?;
    Some(if exact && !bound.exclusive { floor } else { floor + 1 })
}

fn high(bound: Bound, scale: u32) -> Option<i128> {
    let (floor, exact) = bound.decimal?.floor_at(scale)?;
    Some(if exact && bound.exclusive { floor - 1 } else { floor })
}

fn tighter(old: Option<Bound>, new: Option<Bound>, is_tighter: impl Fn(f64, f64) -> bool) -> Option<Bound> {
    let (Some(a), Some(b)) = (old, new) else { return old.or(new) };
    if is_tighter(b.value, a.value) || (b.exclusive && !is_tighter(a.value, b.value)) { new } else { old }
}

/// An unsigned decimal number that may go on.
struct Begun<'t> {
    whole: &'t str,
    point: Option<&'t str>,
    digits: i128,
}

impl<'t> Begun<'t> {
    /// `None` if there are too many digits to compute with.
    fn new(text: &'t str) -> Option<Self> {
        let (whole, point) = match text.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (text, None),
        };
        let digits = format!("0{whole}{}", point.unwrap_or(""));
        (digits.len() < 30).then_some(())?;
        Some(Self { whole, point, digits: digits.parse().ok()? })
    }

    fn scale(&self) -> u32 {
        self.point.map_or(0, |fraction| fraction.len() as u32)
    }

    /// The digits that lead to the first number of `range` with `more` digits before the point and
    /// `fraction` behind it.
    fn extend(&self, range: &Range, more: usize, fraction: usize) -> Option<String> {
        let width = more + fraction;
        let no_digit =
            if self.point == Some("") { fraction == 0 } else { self.whole.is_empty() && more == 0 };
        if no_digit || (self.whole == "0" && more > 0) {
            return None;
        }
        let factor = power(width as u32)?;
        let base = self.digits.checked_mul(factor)?;
        let first = if self.whole.is_empty() && more > 1 { power(width as u32 - 1)? } else { 0 };
        let value = range.first(base + first, base.checked_add(factor - 1)?)?;
        let digits = if width == 0 { String::new() } else { format!("{:0width$}", value - base) };
        let (before, behind) = digits.split_at(more);
        let point = if self.point.is_none() && fraction > 0 { "." } else { "" };
        Some(format!("{before}{point}{behind}"))
    }
}

/// Numbers of digits to append before and behind the point, fewest first.
fn extensions(has_point: bool, whole: bool) -> impl Iterator<Item = (usize, usize)> {
    (0..=MAX_DIGITS).flat_map(move |total| {
        (0..=total)
            .rev()
            .map(move |more| (more, total - more))
            .filter(move |&(more, fraction)| (more == 0 || !has_point) && (fraction == 0 || !whole))
    })
}

/// Guesses if there are more digits than can be computed with.
fn overlong(begun: &str) -> Vec<String> {
    let tails: &[&str] = if begun.ends_with('.') { &["0", "5"] } else { &["", "0", "5"] };
    tails.iter().map(|tail| (*tail).to_owned()).collect()
}

/// Whether a number, which may go on, is beyond a double's range, or too long for an exact multiple.
pub(super) fn is_spoiled(text: &str, has_multiples: bool) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let is_infinite = text.parse::<f64>().is_ok_and(f64::is_infinite);
    digits > 0 && (is_infinite || has_multiples && digits > EXACT_DIGITS)
}

fn power(exponent: u32) -> Option<i128> {
    10_i128.checked_pow(exponent)
}

/// The distance of multiples in units of 10^-`scale`.
fn step_at(multiple: Decimal, scale: u32) -> Option<i128> {
    let digits = multiple.digits.abs().max(1);
    if scale >= multiple.exponent {
        return digits.checked_mul(power(scale - multiple.exponent)?);
    }
    let factor = power(multiple.exponent - scale)?;
    Some(digits / gcd(digits, factor))
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn lcm(a: i128, b: i128) -> Option<i128> {
    (a / gcd(a, b)).checked_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(value: f64, exclusive: bool) -> Bound {
        Bound { value, decimal: Decimal::new(value), exclusive }
    }

    fn rule(min: Option<f64>, max: Option<f64>, multiple: Option<f64>) -> NumberRule {
        let bound = |value| bound(value, false);
        let multiples = multiple.and_then(Decimal::new).into_iter().collect();
        let (min, max) = (min.map(bound), max.map(bound));
        NumberRule { min, max, multiples, ..NumberRule::default() }
    }

    fn whole(rule: NumberRule) -> NumberRule {
        NumberRule { whole: true, ..rule }
    }

    fn first(rule: &NumberRule, begun: &str) -> Option<String> {
        rule.endings(begun).into_iter().next()
    }

    #[test]
    fn free_numbers_end_at_once() {
        let free = rule(None, None, None);
        for (begun, rest) in
            [("", "0"), ("1", ""), ("-", "1"), ("1.", "0"), ("1e", "0"), ("1e-", "0"), ("-0", "")]
        {
            let endings = free.endings(begun);
            assert!(endings.iter().any(|ending| ending == rest), "{begun} {endings:?}");
        }
    }

    #[test]
    fn a_range_is_reached_with_the_fewest_digits() {
        let range = whole(rule(Some(1_000_000.0), Some(1_000_020.0), None));
        assert_eq!(first(&range, "").unwrap(), "1000000");
        assert_eq!(first(&range, "100001").unwrap(), "0");
        assert_eq!(first(&range, "2"), None);
    }

    #[test]
    fn narrow_fractions_and_negative_ranges() {
        assert_eq!(first(&rule(Some(10.25), Some(10.27), None), "1").unwrap(), "0.25");
        assert_eq!(first(&rule(Some(-0.5), Some(-0.3), None), "").unwrap(), "-0.3");
        assert_eq!(first(&whole(rule(Some(-75.0), Some(-70.0), None)), "-").unwrap(), "70");
    }

    #[test]
    fn multiples_are_met() {
        assert_eq!(first(&whole(rule(Some(1.0), None, Some(7.0))), "1").unwrap(), "4");
        assert_eq!(first(&rule(None, None, Some(0.25)), "1.2").unwrap(), "5");
        assert_eq!(first(&rule(None, None, Some(0.25)), "1.1"), None);
        assert_eq!(first(&rule(Some(1.0), Some(2.0), Some(0.3)), "").unwrap(), "1.2");
    }

    #[test]
    fn exclusive_bounds_are_left_out() {
        let zero = Some(bound(0.0, true));
        let one = Some(bound(1.0, true));
        let open = NumberRule { min: zero, max: one, ..NumberRule::default() };
        assert_eq!(first(&open, "").unwrap(), "0.1");
        assert!(!open.admits("0") && open.admits("0.5") && !open.admits("1"));
    }
}
