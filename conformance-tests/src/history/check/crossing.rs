//! Where entries and unseen renewals cross: every order of them that the evidence allows.
//!
//! Between two states that are surely gone through stand some entries and some unseen renewals. Their orders are the ways
//! through a grid, an entry to the right, a renewal down. Each way carries what is known on it, and ends where a step
//! can not be granted. What is kept of the grid are the states on ways that reach its end.

use super::Findings;
use super::grant::{Grants, Moment, Problem};
use super::walk::{Walked, Ways, add, hull, report};

/// Goes from a state over the entries behind it whose places among the renewals hang together, and gives the state that all
/// ways lead to.
pub(super) fn cross<'a>(
    grants: &Grants<'a, '_>,
    (place, count): (usize, u64),
    ways: &mut Ways,
    walked: &mut Walked,
    findings: &mut Findings,
) -> (usize, u64) {
    let written = &grants.path.written;
    let mut last = place + 1;
    while written.get(last + 1).is_some_and(|(least, most)| least < most && *least < written[last].1) {
        last += 1;
    }
    let end = (last, written[last].1);
    let mut grid = Grid::new((place, count), end, std::mem::take(ways));
    grid.go(grants);
    if grid.ways(end).is_empty() {
        // The problem that the furthest way ended with; from there on nothing is sure of this stretch.
        grid.force(grants);
        report(std::mem::take(&mut grid.problems.1), findings);
    }
    grid.keep(walked);
    *ways = grid.alive(end);
    end
}

struct Grid<'a> {
    start: (usize, u64),
    end: (usize, u64),
    /// How many counts there are, both ends among them.
    height: usize,
    /// The ways to each state, by place and then by count.
    cells: Vec<Ways>,
    /// From which way of which state which way of which other comes, in the order in which they were gone.
    steps: Vec<((usize, usize), (usize, usize))>,
    /// How far the furthest way came that ended, and with which problem.
    problems: (usize, Vec<Problem<'a>>),
}

impl<'a> Grid<'a> {
    fn new(start: (usize, u64), end: (usize, u64), ways: Ways) -> Self {
        let height = usize::try_from(end.1 - start.1).unwrap_or(0) + 1;
        let mut cells = vec![Ways::new(); height * (end.0 - start.0 + 1)];
        cells[0] = ways;
        Self { start, end, height, cells, steps: Vec::new(), problems: (0, Vec::new()) }
    }

    fn cell(&self, (place, count): (usize, u64)) -> usize {
        (place - self.start.0) * self.height + usize::try_from(count - self.start.1).unwrap_or(0)
    }

    fn ways(&self, state: (usize, u64)) -> &Ways {
        &self.cells[self.cell(state)]
    }

    /// All states, in an order in which each stands behind those that lead to it.
    fn states(&self) -> impl Iterator<Item = (usize, u64)> + use<'a> {
        let (start, end) = (self.start, self.end);
        (start.0..=end.0).flat_map(move |place| (start.1..=end.1).map(move |count| (place, count)))
    }

    /// Goes every way, until it ends or is at the end.
    fn go(&mut self, grants: &Grants<'a, '_>) {
        let written = &grants.path.written;
        for (place, count) in self.states() {
            let from = self.cell((place, count));
            for nth in 0..self.cells[from].len() {
                let before = self.cells[from][nth];
                let may_wait = written.get(place + 1).is_none_or(|(_, most)| count < *most);
                if count < self.end.1 && may_wait {
                    let mut problems = Vec::new();
                    let moment = grants.renew_unseen(count, place, before, &mut problems);
                    self.arrive((from, nth), (place, count + 1), moment, problems);
                }
                let may_enter = place < self.end.0 && (written[place + 1].0..=written[place + 1].1).contains(&count);
                if may_enter {
                    let mut problems = Vec::new();
                    let moment = grants.write(place + 1, before, &mut problems);
                    self.arrive((from, nth), (place + 1, count), moment, problems);
                }
            }
        }
    }

    fn arrive(&mut self, from: (usize, usize), state: (usize, u64), moment: Moment, problems: Vec<Problem<'a>>) {
        let cell = self.cell(state);
        if problems.is_empty() {
            let nth = add(&mut self.cells[cell], moment);
            self.steps.push((from, (cell, nth)));
            return;
        }
        let far = state.0 - self.start.0 + usize::try_from(state.1 - self.start.1).unwrap_or(0);
        if far > self.problems.0 {
            self.problems = (far, problems);
        }
    }

    /// Goes one way in spite of what is wrong on it: each entry as late as it may stand.
    fn force(&mut self, grants: &Grants<'a, '_>) {
        let (mut place, mut count) = self.start;
        let mut moment = hull(&self.cells[0]);
        let mut from = (0, 0);
        while (place, count) != self.end {
            let is_due = place < self.end.0 && count == grants.path.written[place + 1].1;
            let mut ignored = Vec::new();
            if is_due {
                place += 1;
                moment = grants.write(place, moment, &mut ignored);
            } else {
                moment = grants.renew_unseen(count, place, moment, &mut ignored);
                count += 1;
            }
            let cell = self.cell((place, count));
            let nth = add(&mut self.cells[cell], moment);
            self.steps.push((from, (cell, nth)));
            from = (cell, nth);
        }
    }

    /// Drops every way that does not reach the end, and keeps what is known of the states that are left.
    fn keep(&mut self, walked: &mut Walked) {
        let mut alive: Vec<Vec<bool>> = self.cells.iter().map(|ways| vec![false; ways.len()]).collect();
        if let Some(last) = alive.last_mut() {
            last.fill(true);
        }
        let mut entered: Vec<Option<(u64, u64)>> = vec![None; self.end.0 - self.start.0];
        for (from, to) in self.steps.iter().rev() {
            if !alive[to.0][to.1] {
                continue;
            }
            alive[from.0][from.1] = true;
            if from.0 / self.height < to.0 / self.height {
                let count = self.start.1 + (to.0 % self.height) as u64;
                let (least, most) = entered[from.0 / self.height].unwrap_or((count, count));
                entered[from.0 / self.height] = Some((least.min(count), most.max(count)));
            }
        }
        for (cell, alive) in self.cells.iter_mut().zip(&alive) {
            let mut nth = 0;
            cell.retain(|_| {
                nth += 1;
                alive[nth - 1]
            });
        }
        for state in self.states() {
            let ways = self.ways(state);
            if !ways.is_empty() {
                walked.crossed.insert(state, hull(ways));
            }
        }
        let bounds = entered.iter().enumerate();
        let bounds = bounds.filter_map(|(nth, counts)| Some((self.start.0 + 1 + nth, (*counts)?)));
        walked.narrowed.extend(bounds);
        // By the number of renewals alone, behind the grid: of the state at its end.
        let end = hull(self.ways(self.end));
        walked.renewed.extend((self.start.1..self.end.1).map(|_| end));
    }

    /// The ways to a state that are left.
    fn alive(&self, state: (usize, u64)) -> Ways {
        self.ways(state).clone()
    }
}
