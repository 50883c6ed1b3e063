//! The walk through the states: whether each granted step follows from the one before, and what is known of the moments in
//! between.
//!
//! Nearly everywhere the answers tell where each step stands, and there is one way. Where they leave the order of entries
//! and unseen renewals open, every order is [gone through](super::crossing), and those that contradict the evidence are
//! dropped. Each way is a [`Moment`] of its own, since they may differ in what they leave behind.

use std::collections::{HashMap, HashSet};

use super::crossing;
use super::grant::{Grants, Moment, Problem};
use super::joined::whose;
use super::unseen::OpenRenewals;
use super::{Findings, Kind};
use crate::history::invocation::Invocation;
use crate::history::record::{Answer, Call};

/// So many ways are told apart; of more, only what they have in common is known.
const WAYS: usize = 8;

/// What the walk found out of each state.
#[derive(Default)]
pub(super) struct Walked {
    /// After each renewal, by its number from 0 on.
    pub(super) renewed: Vec<Moment>,
    /// Where the order is open: the states that some way goes through, by place and count.
    pub(super) crossed: HashMap<(usize, u64), Moment>,
    /// The bounds of each entry that are narrower than its path had them, by its place.
    pub(super) narrowed: Vec<(usize, (u64, u64))>,
    /// The tenures of which every renewal was granted whose answer nobody got.
    pub(super) spent: HashSet<usize>,
    /// In the end.
    pub(super) end: Option<Moment>,
}

/// The ways to one state.
pub(super) type Ways = Vec<Moment>;

/// Adds a way, where it is another one.
pub(super) fn add(ways: &mut Ways, moment: Moment) -> usize {
    if let Some(same) = ways.iter().position(|other| *other == moment) {
        return same;
    }
    if ways.len() < WAYS {
        ways.push(moment);
    } else if let Some(last) = ways.last_mut() {
        *last = last.hull(moment);
    }
    ways.len() - 1
}

/// What is known of a state that has these ways to it.
pub(super) fn hull(ways: &[Moment]) -> Moment {
    ways.iter().copied().reduce(Moment::hull).unwrap_or(Moment::NONE)
}

/// Goes through all states.
pub(super) fn walk<'a>(grants: &Grants<'a, '_>, findings: &mut Findings) -> Walked {
    let path = grants.path;
    let mut walked = Walked { renewed: Vec::with_capacity(path.known.len()), ..Walked::default() };
    let entries = path.written.len();
    if entries == 0 {
        return walked;
    }
    let mut ways = vec![Moment::NONE];
    step(&mut ways, |before, problems| grants.write(0, before, problems), findings);
    let (mut place, mut count) = (0, 0);
    loop {
        let (least, most) = path.written.get(place + 1).copied().unwrap_or((path.total, path.total));
        while count < least {
            renew(grants, place, count, &mut ways, findings);
            walked.renewed.push(hull(&ways));
            count += 1;
        }
        if place + 1 == entries {
            break;
        }
        if least == most {
            note_spent(grants, place, &ways, &mut walked);
            place += 1;
            step(&mut ways, |before, problems| grants.write(place, before, problems), findings);
        } else {
            (place, count) = crossing::cross(grants, (place, count), &mut ways, &mut walked, findings);
        }
    }
    note_spent(grants, place, &ways, &mut walked);
    walked.end = Some(hull(&ways));
    walked
}

/// Notes what is sure of the renewals of the tenure of an entry, once they are all gone through.
fn note_spent(grants: &Grants<'_, '_>, place: usize, ways: &[Moment], walked: &mut Walked) {
    let tenure = grants.in_force[place].tenure;
    let is_over = grants.in_force.get(place + 1).is_none_or(|next| next.tenure != tenure);
    let open = grants.unseen.open(tenure).map_or(0, OpenRenewals::len);
    if is_over && open > 0 && hull(ways).unseen == open {
        walked.spent.insert(tenure);
    }
}

/// Takes every way on by one step. Those that it can not be granted on are dropped; if it can be on none, that is found,
/// and the first goes on.
fn step<'a>(ways: &mut Ways, go: impl Fn(Moment, &mut Vec<Problem<'a>>) -> Moment, findings: &mut Findings) {
    let mut problems = Vec::new();
    if let [way] = ways.as_mut_slice() {
        *way = go(*way, &mut problems);
        return report(problems, findings);
    }
    let mut next = Ways::new();
    let mut first = None;
    for way in ways.iter() {
        let mut problems = Vec::new();
        let moment = go(*way, &mut problems);
        if problems.is_empty() {
            add(&mut next, moment);
        } else {
            first.get_or_insert((moment, problems));
        }
    }
    if let (true, Some((moment, problems))) = (next.is_empty(), first) {
        next.push(moment);
        report(problems, findings);
    }
    *ways = next;
}

/// Takes every way on by a renewal.
fn renew<'a>(grants: &Grants<'a, '_>, place: usize, number: u64, ways: &mut Ways, findings: &mut Findings) {
    match grants.path.renewal(number) {
        Some(call) if is_in_force(grants, call, place, findings) => {
            step(ways, |before, problems| grants.renew(call, place, before, problems), findings);
        }
        Some(_) => {}
        None => step(ways, |before, problems| grants.renew_unseen(number, place, before, problems), findings),
    }
}

/// Whether the lease that a renewal presented is in force where it stands, and its answer is right in all that does not
/// hang on the moment.
fn is_in_force(grants: &Grants<'_, '_>, call: &Invocation, place: usize, findings: &mut Findings) -> bool {
    let (Call::Renew { lease, .. }, Some((_, Answer::Renewed { lease: granted, head, chain, judged }))) =
        (&call.call, &call.answer)
    else {
        return false;
    };
    let in_force = &grants.in_force[place];
    let tenure = &grants.tenures[in_force.tenure];
    let is_its =
        (lease.generation, lease.acquisition, &lease.holder) == (tenure.generation, tenure.acquisition, &tenure.holder);
    if !is_its || in_force.vacancy.is_some() {
        let expected = format!(
            "the renewal at revision {} is of a lease in force: `{}`, generation {}",
            judged.revision, tenure.holder, tenure.generation
        );
        findings.add(Kind::StaleWrite, Some(call), expected, whose(lease));
        return false;
    }
    let entry = &grants.part.log[place].entry;
    if granted.ttl != tenure.ttl || *head != entry.last || *chain != entry.chain {
        let expected = format!("its lease's TTL (R1), head {} and its chain (R2)", entry.last);
        let seen = format!("TTL {:?}, head {head}, chain {:.8}", granted.ttl, chain.to_string());
        findings.add(Kind::WrongAnswer, Some(call), expected, seen);
    }
    true
}

pub(super) fn report(problems: Vec<Problem<'_>>, findings: &mut Findings) {
    for problem in problems {
        findings.counts.stale_accepted += u64::from(problem.is_stale_append);
        findings.add(problem.kind, problem.call, problem.expected, problem.seen);
    }
}
