//! The order of judgement: of several things that are wrong, the first names the rejection.

use super::prelude::*;

/// What a partition is like when a call comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tenure {
    Live,
    Released,
    Expired,
    ReleasedAndExpired,
}

const TENURES: [Tenure; 4] = [Tenure::Live, Tenure::Released, Tenure::Expired, Tenure::ReleasedAndExpired];

pub(super) async fn jud01_append_names_the_first_that_fails(cx: Context) -> Verdict {
    let ledger = cx.ledger();
    for tenure in TENURES {
        let stage = Stage::set(&cx, tenure).await?;
        for (lease, first) in stage.leases() {
            for (id, content) in [(None, "new"), (Some(stage.used), "other"), (Some(stage.used), "used")] {
                for head in [None, Some(stage.head), Some(at(1)), Some(Position::MAX)] {
                    let sent = append_as(id.unwrap_or_else(AppendId::mint), content);
                    let sent = head.map_or(sent.clone(), |head| sent.expecting(head));
                    let later = match (id, content, head) {
                        (Some(_), "used", _) => None,
                        (Some(_), ..) => Some(Reason::AppendIdReused),
                        (None, _, Some(head)) if head != stage.head => Some(Reason::PositionConflict),
                        // It would be granted, and change the stage: not part of this case.
                        (None, ..) if first.is_none() => continue,
                        (None, ..) => None,
                    };
                    let what = format!("on a {tenure:?} tenure, an append with {}, {content}, {head:?}", told(&lease));
                    stage.judge(&what, first.or(later), ledger.append(&lease, &sent)).await?;
                }
            }
        }
    }
    Ok(())
}

pub(super) async fn jud02_renewal_names_the_first_that_fails(cx: Context) -> Verdict {
    let ledger = cx.ledger();
    for tenure in TENURES {
        let stage = Stage::set(&cx, tenure).await?;
        for (lease, first) in stage.leases() {
            // A renewal that is granted changes the stage: not part of this case.
            let Some(first) = first else { continue };
            let what = format!("on a {tenure:?} tenure, a renewal with {}", told(&lease));
            stage.judge(&what, Some(first), ledger.renew(&lease, None)).await?;
        }
    }
    Ok(())
}

pub(super) async fn jud03_release_names_the_first_that_fails(cx: Context) -> Verdict {
    let ledger = cx.ledger();
    for tenure in TENURES {
        let stage = Stage::set(&cx, tenure).await?;
        for (lease, first) in stage.leases() {
            let current = &stage.current;
            let expected = match first {
                None => continue,
                // Of a tenure that has ended it is a success without effect, but only for who held it.
                Some(Reason::Released | Reason::Expired) => None,
                Some(Reason::StaleGeneration) if lease.acquisition != stage.before.acquisition => {
                    Some(Reason::WrongAcquisition)
                }
                Some(Reason::StaleGeneration) if lease.holder != stage.before.holder => Some(Reason::WrongHolder),
                Some(Reason::StaleGeneration) => None,
                refused => refused,
            };
            let what = format!("on {tenure:?} of {}, a release with {}", told(current), told(&lease));
            stage.judge(&what, expected, ledger.release(&lease)).await?;
        }
    }
    Ok(())
}

pub(super) async fn jud04_claim_names_the_first_that_fails(cx: Context) -> Verdict {
    let ledger = cx.ledger();
    for tenure in TENURES {
        let stage = Stage::set(&cx, tenure).await?;
        let (current, before) = (&stage.current, &stage.before);
        for acquisition in [current.acquisition, before.acquisition, AcquisitionId::mint()] {
            for name in ["b", "c"] {
                for observed in [Observation::of(current), Observation::of(before), Observation::NeverClaimed] {
                    let asked = Claim::new(stage.jobs.clone(), holder(name), long_ttl(), observed);
                    let asked = asked.with_acquisition(acquisition);
                    let expected = if acquisition == current.acquisition {
                        match tenure {
                            _ if asked.holder != current.holder => Some(Reason::WrongHolder),
                            Tenure::Released | Tenure::ReleasedAndExpired => Some(Reason::Released),
                            Tenure::Expired => Some(Reason::Expired),
                            Tenure::Live => None,
                        }
                    } else if acquisition == before.acquisition {
                        Some(Reason::AcquisitionSpent)
                    } else if observed != Observation::of(current) {
                        Some(Reason::ObservationOutdated)
                    } else if tenure == Tenure::Live {
                        Some(Reason::Held)
                    } else {
                        // It would be granted, and change the stage: not part of this case.
                        continue;
                    };
                    let what = format!("on a {tenure:?} tenure, a claim by {name} that saw {observed:?}");
                    stage.judge(&what, expected, ledger.claim(&asked)).await?;
                }
            }
        }
    }
    Ok(())
}

pub(super) async fn jud05_append_id_used_by_a_fenced_caller(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let landed = append("landed");
    let entry = ledger.append(&a, &landed).await?.entry;
    ledger.release(&a).await?;
    let what = "an append that had landed, by a released lease";
    let call = ledger.append(&a, &landed);
    let refused = refused_without_effect(what, &*ledger, &jobs, Reason::Released, call).await?;
    equal("the entry that the refusal names", &refused.earlier, &Some(entry.clone()))?;
    claim(&*ledger, &jobs, "b", long_ttl()).await?;
    let what = "an append that had landed, by a lease that was taken over";
    let call = ledger.append(&a, &landed);
    let refused = refused_without_effect(what, &*ledger, &jobs, Reason::StaleGeneration, call).await?;
    equal("the entry that the refusal names", &refused.earlier, &Some(entry))?;
    let missing = append("never sent");
    let call = ledger.append(&a, &missing);
    let refused = refused_without_effect("an append", &*ledger, &jobs, Reason::StaleGeneration, call).await?;
    equal("the entry of an append that had not landed", &refused.earlier, &None)?;
    Ok(())
}

pub(super) async fn jud06_refusal_tells_both_sides(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let a = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    ledger.release(&a).await?;
    let b = claim(&*ledger, &jobs, "b", long_ttl()).await?.lease;
    let sent = append("stale").expecting(at(9));
    let refused = expect_rejected("a stale append", ledger.append(&a, &sent).await, Reason::StaleGeneration)?;
    let presented = &refused.presented;
    let seen = (&presented.holder, presented.generation, presented.acquisition, presented.append, presented.expected);
    let sent = (&Some(a.holder.clone()), Some(a.generation), Some(a.acquisition), Some(sent.id()), Some(at(9)));
    equal("what was presented", &seen, &sent)?;
    let current = refused.current.as_ref().ok_or_else(|| Violation::new("what is true", "nothing"))?;
    let seen = (&current.holder, current.generation, current.acquisition, current.expires_at, current.head);
    equal("what is true", &seen, &(&b.holder, b.generation, b.acquisition, b.expires_at, at(3)))?;
    equal("operation and partition", &(refused.operation, &refused.partition), &(Operation::Append, &jobs))?;
    let asked = first_claim(&jobs, "c", long_ttl());
    let refused = expect_rejected("an outdated claim", ledger.claim(&asked).await, Reason::ObservationOutdated)?;
    let presented = (refused.operation, refused.presented.observed, refused.presented.acquisition);
    let sent = (Operation::Claim, Some(Observation::NeverClaimed), Some(asked.acquisition));
    equal("what the claim presented", &presented, &sent)?;
    Ok(())
}

pub(super) async fn jud07_revisions_order_what_was_granted(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let mut newest = 0;
    let mut lease = None;
    for round in 0..12 {
        let handle = if round % 2 == 0 { &ledger } else { &other };
        let (what, revision) = match (round % 4, lease.take()) {
            (0, _) | (_, None) => {
                let claimed = claim(&**handle, &jobs, "a", long_ttl()).await?;
                lease = Some(claimed.lease);
                ("a claim", claimed.judged.revision)
            }
            (1, Some(held)) => {
                let renewal = handle.renew(&held, None).await?;
                lease = Some(renewal.lease);
                ("a renewal", renewal.judged.revision)
            }
            (2, Some(held)) => {
                let sent = append("1");
                let revision = handle.append(&held, &sent).await?.judged.revision;
                let replay = handle.append(&held, &sent).await?.judged.revision;
                equal("the revision of a replay", &replay, &revision)?;
                lease = Some(held);
                ("an append", revision)
            }
            (_, Some(held)) => ("a release", handle.release(&held).await?.judged().revision),
        };
        ensure(revision.get() > newest, &format!("{what} moves the revision on from {newest}"), revision)?;
        equal("the revision that others see", &ledger.observe(&jobs).await?.judged.revision, &revision)?;
        newest = revision.get();
    }
    Ok(())
}

/// A partition whose newest tenure is in a certain state, and which knows an earlier tenure and an append.
struct Stage {
    ledger: Arc<dyn FencedLedger>,
    jobs: PartitionId,
    /// The tenure before: of `a`, generation 1.
    before: Lease,
    /// The newest tenure: of `b`, generation 2.
    current: Lease,
    tenure: Tenure,
    /// An id that `b` used for the content `used`.
    used: AppendId,
    head: Position,
}

impl Stage {
    async fn set(cx: &Context, tenure: Tenure) -> Result<Self, Stop> {
        let (ledger, jobs) = (cx.ledger(), partition(&format!("{tenure:?}")));
        let expires = matches!(tenure, Tenure::Expired | Tenure::ReleasedAndExpired);
        let before = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
        ledger.release(&before).await?;
        let current = claim(&*ledger, &jobs, "b", if expires { cx.short_ttl() } else { long_ttl() }).await?.lease;
        let used = AppendId::mint();
        ledger.append(&current, &append_as(used, "used")).await?;
        if matches!(tenure, Tenure::Released | Tenure::ReleasedAndExpired) {
            ledger.release(&current).await?;
        }
        if expires {
            cx.expire(&current).await?;
        }
        let head = read_all(&*ledger, &jobs).await?.last().map_or(Position::FIRST, |event| event.position);
        Ok(Self { ledger, jobs, before, current, tenure, used, head })
    }

    /// Every lease that can be presented, and the first check that it fails.
    fn leases(&self) -> Vec<(Lease, Option<Reason>)> {
        let mut leases = Vec::new();
        for by in [-1, 0, 1] {
            for acquisition in [self.current.acquisition, self.before.acquisition, AcquisitionId::mint()] {
                for name in ["a", "b"] {
                    let lease = edited(&self.current, |lease| {
                        lease.generation = shifted(lease.generation, by);
                        lease.acquisition = acquisition;
                        lease.holder = holder(name);
                    });
                    let first = match by {
                        -1 => Some(Reason::StaleGeneration),
                        1 => Some(Reason::UnknownGeneration),
                        _ if acquisition != self.current.acquisition => Some(Reason::WrongAcquisition),
                        _ if lease.holder != self.current.holder => Some(Reason::WrongHolder),
                        _ => match self.tenure {
                            Tenure::Live => None,
                            Tenure::Released | Tenure::ReleasedAndExpired => Some(Reason::Released),
                            Tenure::Expired => Some(Reason::Expired),
                        },
                    };
                    leases.push((lease, first));
                }
            }
        }
        leases
    }

    /// Makes a call that is refused for a reason, or is a success without effect.
    async fn judge<T: std::fmt::Debug>(
        &self,
        what: &str,
        reason: Option<Reason>,
        call: impl Future<Output = ledger_core::Result<T>>,
    ) -> Verdict {
        let before = Snapshot::take(&*self.ledger, &self.jobs).await?;
        let answer = call.await;
        match reason {
            Some(reason) => drop(expect_rejected(what, answer, reason)?),
            None => ensure(answer.is_ok(), &format!("{what} is a success without effect"), &answer)?,
        }
        before.expect_unchanged(what, &*self.ledger, &self.jobs, self.tenure == Tenure::Expired).await
    }
}

fn told(lease: &Lease) -> String {
    format!("holder {:?}, generation {}, acquisition {}", lease.holder, lease.generation, lease.acquisition)
}
