//! Chooses, by price and from plain numbers, where a new sequence's first cells come from and which slot it gets.
//!
//! Moving bytes is weighed against computing tokens, both in seconds.

use crate::ids::SlotId;

/// Cells that cover fewer tokens are not worth a move, whatever their size: the fixed price of any move.
pub(super) const MIN_SHARED: usize = 8;
/// Fewer tokens are not worth saving when their slot is needed.
pub(super) const MIN_SAVED: usize = 32;
/// A running prompt is waited for if it will give this many tokens more than what exists.
const MIN_GAIN: usize = 16;
/// Maximum number of steps for which a gap between running sequences counts: nobody knows which ends when.
const GAP_STEPS: usize = 64;

/// Prices, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prices {
    /// Computing a prompt token.
    pub(crate) token: f64,
    /// Moving a byte of cells from a slot to host memory, or back.
    pub(crate) byte: f64,
    /// What running sequences that are not adjacent add to a step.
    pub(crate) gap: f64,
}

impl Prices {
    fn tokens(&self, num_tokens: usize) -> f64 {
        num_tokens as f64 * self.token
    }

    fn bytes(&self, num_bytes: usize) -> f64 {
        num_bytes as f64 * self.byte
    }

    /// The price of moving `num_bytes`.
    fn moving(&self, num_bytes: usize) -> f64 {
        self.bytes(num_bytes) + self.tokens(MIN_SHARED)
    }
}

/// The source of the first cells of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// No cells exist.
    Nothing,
    /// An idle slot, which the sequence takes over with its cells.
    TakeOver,
    /// A copy of another slot.
    Copy(SlotId),
    /// Host memory, by the index there.
    Parked(usize),
}

/// Cells that cover the first tokens of a prompt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer {
    pub(crate) origin: Origin,
    /// Number of the prompt's tokens that they cover.
    pub(crate) shared: usize,
    /// Number of their own sequence's tokens that they cover.
    pub(crate) len: usize,
    /// Bytes that are moved to use them elsewhere; `None` if they can be used only in their slot.
    pub(crate) bytes: Option<usize>,
}

/// The location of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Idle(SlotId),
    Running(SlotId),
    Parked(usize),
}

/// A slot that a new sequence may get.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) slot: SlotId,
    /// Idle cells in it; `None` for an empty slot.
    pub(crate) held: Option<Held>,
    /// Running sequences in the slots beside it.
    pub(crate) num_neighbours: usize,
    /// Whether a sequence in it would be computed apart from the running ones.
    pub(crate) is_apart: bool,
}

/// Idle cells of a conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) len: usize,
    pub(crate) bytes: usize,
    /// Whether host memory has room for them.
    pub(crate) can_save: bool,
    /// How likely it is that the conversation continues.
    pub(crate) chance: f64,
}

/// The cost of dropping cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Loss {
    pub(crate) seconds: f64,
    /// Whether they are saved to host memory first.
    pub(crate) is_saved: bool,
}

impl Held {
    /// The cost when the last `cut` tokens lose their cells: a move now and perhaps one back, or perhaps
    /// computing them again. A short end that is cut off, as by another answer to the same question, is hardly wanted
    /// again.
    pub(crate) fn loss(&self, cut: usize, prices: &Prices) -> Loss {
        let chance = self.chance * cut as f64 / self.len.max(1) as f64;
        let computing = chance * prices.tokens(cut);
        let saving = (1.0 + chance) * prices.bytes(self.bytes);
        let is_saved = self.can_save && cut >= MIN_SAVED && saving < computing;
        Loss { seconds: if is_saved { saving } else { computing }, is_saved }
    }
}

impl Room {
    fn loss(&self, prices: &Prices) -> Loss {
        let nothing = Loss { seconds: 0.0, is_saved: false };
        self.held.map_or(nothing, |held| held.loss(held.len, prices))
    }

    /// A sequence that is computed apart can be moved later, if it is worth that.
    fn apart(&self, prices: &Prices) -> f64 {
        if self.is_apart { (GAP_STEPS as f64 * prices.gap).min(prices.moving(0)) } else { 0.0 }
    }
}

/// A running prompt that will have computed the first tokens of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leader {
    /// The caller's index of the sequence.
    pub(crate) index: usize,
    /// Number of tokens that both share.
    pub(crate) position: usize,
    /// Size of a copy of them in bytes.
    pub(crate) bytes: usize,
}

/// The place where a sequence starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) source: Source,
    /// Number of tokens whose cells come from there.
    pub(crate) shared: usize,
    pub(crate) slot: SlotId,
}

/// What to do with a waiting sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Start(Start),
    /// A running prompt is about to have computed what this one shares with it.
    Wait {
        leader: usize,
        position: usize,
    },
}

/// The cheapest place for a prompt; `None` without a slot.
pub(crate) fn choose(
    num_tokens: usize,
    offers: &[Offer],
    rooms: &[Room],
    leader: Option<Leader>,
    prices: &Prices,
) -> Option<Place> {
    let (anywhere, price) = best_room(rooms, None, prices)?;
    let nothing = Start { source: Source::Nothing, shared: 0, slot: anywhere };
    let computing = |shared: usize| prices.tokens(num_tokens.saturating_sub(shared));
    let used = offers.iter().flat_map(|offer| starts(num_tokens, offer, rooms, prices));
    let used = used.map(|(start, price)| (start, price + computing(start.shared)));
    let (start, cost) = std::iter::once((nothing, price + computing(0)))
        .chain(used)
        .reduce(|best, other| if other.1 < best.1 { other } else { best })?;
    let is_better = |leader: &Leader| {
        let waiting = computing(leader.position) + prices.moving(leader.bytes) + price;
        leader.position >= start.shared + MIN_GAIN && waiting < cost
    };
    Some(match leader.filter(is_better) {
        Some(Leader { index, position, .. }) => Place::Wait { leader: index, position },
        None => Place::Start(start),
    })
}

/// The ways to use cells, with the cost of each beside computing the rest.
fn starts(
    num_tokens: usize,
    offer: &Offer,
    rooms: &[Room],
    prices: &Prices,
) -> impl Iterator<Item = (Start, f64)> {
    let Offer { origin, shared, len, bytes } = *offer;
    let taken = match origin {
        Origin::Idle(slot) => {
            rooms.iter().find(|room| room.slot == slot && is_takeover(num_tokens, offer, rooms))
        }
        Origin::Running(_) | Origin::Parked(_) => None,
    };
    let taken = taken.map(|room| {
        let loss = room.held.map_or(0.0, |held| held.loss(len.saturating_sub(shared), prices).seconds);
        (Start { source: Source::TakeOver, shared, slot: room.slot }, loss + room.apart(prices))
    });
    let (source, own) = match origin {
        Origin::Idle(slot) => (Source::Copy(slot), Some(slot)),
        Origin::Running(slot) => (Source::Copy(slot), None),
        Origin::Parked(index) => (Source::Parked(index), None),
    };
    let moved = bytes.filter(|_| shared >= MIN_SHARED).and_then(|bytes| {
        let (slot, price) = best_room(rooms, own, prices)?;
        Some((Start { source, shared, slot }, price + prices.moving(bytes)))
    });
    taken.into_iter().chain(moved)
}

/// A conversation of which little is shared keeps its slot while there is an empty one, unless the same was asked again
/// and what was answered is short.
fn is_takeover(num_tokens: usize, offer: &Offer, rooms: &[Room]) -> bool {
    let is_most = 2 * offer.shared >= offer.len;
    let is_repeated = offer.shared == num_tokens && offer.len - offer.shared < MIN_SAVED;
    is_most || is_repeated || (offer.shared >= MIN_SHARED && rooms.iter().all(|room| room.held.is_some()))
}

/// The slot whose cells cost least, and what they cost: an empty one before any other, where there are several the
/// one beside most running sequences.
fn best_room(rooms: &[Room], except: Option<SlotId>, prices: &Prices) -> Option<(SlotId, f64)> {
    let empty = rooms.iter().filter(|room| room.held.is_none());
    if let Some(room) = empty.reduce(|a, b| if b.num_neighbours > a.num_neighbours { b } else { a }) {
        return Some((room.slot, room.apart(prices)));
    }
    let others = rooms.iter().filter(|room| Some(room.slot) != except);
    others
        .map(|room| (room.slot, room.loss(prices).seconds + room.apart(prices)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// Whether a running sequence, with these bytes to move and this many tokens to come at most, is moved beside the
/// others. No conversation of some length is lost for that.
pub(crate) fn closes_gap(bytes: usize, num_left: usize, to: &Room, prices: &Prices) -> bool {
    let loss = to.loss(prices);
    let is_lost = to.held.is_some_and(|held| held.len >= MIN_SAVED) && !loss.is_saved;
    let gain = num_left.min(GAP_STEPS) as f64 * prices.gap;
    !is_lost && prices.bytes(bytes) + loss.seconds < gain
}

/// Whether a sequence that must give way, and will resume, is saved instead of being computed again.
pub(crate) fn is_saved_for_later(num_tokens: usize, bytes: usize, prices: &Prices) -> bool {
    2.0 * prices.bytes(bytes) < prices.tokens(num_tokens)
}

#[cfg(test)]
mod tests;
